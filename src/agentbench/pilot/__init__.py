"""Owns pre-registered, staged studies.

`design` says what will be done, `registration` freezes it, `lifecycle` carries it out, `decisions` decides, `pilot_state` reads
everything back, `report` shows it and `verification` decides again. A decision must not depend on anything but the registration
and the recorded attempts.
"""
