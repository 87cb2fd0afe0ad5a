"""The figures of README and docs, read from what commands print: `python -m tools.figures` (`make figures`).

`studies` lists the commands and which values each one gives; `files` runs a command and keeps the values in
`docs/figures/NAME.json`; `pages` finds the marks of a page and compares it with the files.
"""
