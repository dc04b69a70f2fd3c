"""Signed runs: keys, envelopes, statements about runs, trust files and the witness log."""
