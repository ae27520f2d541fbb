"""Logs of system calls of real programs, made into scripts of nandlab's language.

`strace` reads the lines, `arguments` what a call was given, `tree` and `processes` keep what is
open and what has which name, `calls` carries the calls out on them, `script` writes the lines.
"""
