# SPDX-License-Identifier: Apache-2.0
"""Reproductions of published experiments: a paper's files begin with its name, its study (with the protocol), its page.

- grid: Hao, Lu, Liu & Wen 2014, grid jobs with files and deadlines
- online_knn_ga: Xu, Xiong & Xiao 2018, run times from similar jobs, tuned online by a genetic algorithm
- pqstar: Kumar & Vadhiyar 2012, queue waits, quick starters found in near, mid and far history
- su: Wang, Dai, Yu & Dong 2021, run times from clusters of job names
- vasp: Wu et al. 2019, run time of VASP jobs from their input files, IRPA and BRBF

Nothing imports this room but the verb `reproduce`.
"""
