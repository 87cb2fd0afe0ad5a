"""Hao, Lu, Liu & Wen 2014: grid jobs with files and deadlines."""
