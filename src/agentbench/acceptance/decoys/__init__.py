"""Decoy tests: copies of required tests with a wrong expected value, which a correct solution cannot pass.

Code under test shares a process with its tests, so clever code can make a test report that it passed. It cannot easily
know which of two versions of a test is the real one: they look alike, no run is known to contain only real tests, and
only the right answer tells them apart. Forged reports, objects equal to everything and values read from the test pass
both versions, whatever their means, and are exposed by that.

    run_with_decoys(tests, step)       decoy_check.py          run a check with decoys and decide it
    decoy_plan(tests)                  decoy_plan.py           which tests have decoys, proved with the reference
    draw_runs(targets, …)              assignments.py          which version of a test is in which run
    run_decoys(tests, assignment)      decoy_runs.py           one run with decoys among the tests
    find_mutations(source, …)          mutate.py               how a test's expected value can be made wrong
    final_assertions(test)             assertions.py           the assertions at the end of a test
    written_values(side, …)            places.py               where an expected value is written
    other_literals(value, …)           alternative_values.py   wrong values that look like the real one
    Shape                              shape.py                whether two versions look alike when compiled
"""
