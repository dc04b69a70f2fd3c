import unittest

from calendar_rules import is_leap


class LeapYears(unittest.TestCase):
    def test_centuries(self):
        self.assertEqual([is_leap(year) for year in (1900, 2000, 2024, 2023)], [False, True, True, False])


if __name__ == "__main__":
    unittest.main()
