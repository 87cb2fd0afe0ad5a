"""VASP inputs as features of a job."""
