"""Wu et al. 2019: run time of VASP jobs from their input files, IRPA and BRBF."""
