"""The figures of README and docs, read from the output of commands: `python -m tools.figures` (`make figures`).

`studies` lists the commands and the values of each; `files` runs a command and writes the values to
`docs/figures/NAME.json`; `pages` finds the marks of a page and compares them with the files.
"""
