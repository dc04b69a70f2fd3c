import unittest

from slugs import slug


class Slugs(unittest.TestCase):
    def test_spaces_and_punctuation(self):
        self.assertEqual(slug("Hello,  world!"), "hello-world")

    def test_words(self):
        self.assertEqual(slug("A short title"), "a-short-title")


if __name__ == "__main__":
    unittest.main()
