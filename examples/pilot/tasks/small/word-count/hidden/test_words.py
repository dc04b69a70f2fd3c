import unittest

from words import most_common


class MostCommon(unittest.TestCase):
    def test_most_frequent_word(self):
        self.assertEqual(most_common("The cat and the dog"), "the")

    def test_first_of_several(self):
        self.assertEqual(most_common("b a a b"), "b")


if __name__ == "__main__":
    unittest.main()
