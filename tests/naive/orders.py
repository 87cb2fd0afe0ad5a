"""An order that is nobody's: it reads all five arguments."""


def odd(now, submit, procs, planned, wait):
    return procs - planned / 7.0 - now * wait * procs / 50.0
