"""`python -m toystats`: answers requests from standard input until it ends."""

import sys

from toystats.requests import answer


def main():
    for line in sys.stdin:
        if line.strip():
            print(answer(line), flush=True)


if __name__ == "__main__":
    main()
