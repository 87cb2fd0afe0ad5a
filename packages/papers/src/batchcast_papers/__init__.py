# SPDX-License-Identifier: Apache-2.0
"""Reproductions of papers, one folder each: prediction methods, the study, its HTML page, the command, and a README.md
that says where each equation is coded.

- grid: Hao, Lu, Liu & Wen 2014, grid jobs with files and deadlines
- online_knn_ga: Xu, Xiong & Xiao 2018, run times from similar jobs, tuned online by a genetic algorithm
- quick_starters: Kumar & Vadhiyar 2012, queue waits, jobs that start within an hour (quick starters)
- su: Wang, Dai, Yu & Dong 2021, run times from clusters of job names
- vasp: Wu et al. 2019, run time of VASP jobs from their input files, IRPA and BRBF

batchcast does not import this package. Its registry and command line find the papers' methods and commands by the
entry points in pyproject.toml, as for any other package.
"""
