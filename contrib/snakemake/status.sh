#!/bin/sh
# The state of a job in Snakemake's words, for cluster-generic-status-cmd: status.sh JOBID, or JOBID;CLUSTER as
# `sbatch --parsable -M CLUSTER` prints it. A job about which sacct says nothing counts as running.
case $1 in
  *\;*) set -- "${1%%;*}" -M "${1#*;}" ;;
esac
job=$1
shift
case $(sacct "$@" -nX -o State%20 -j "$job" 2> /dev/null | head -n 1) in
  *COMPLETED*) echo success ;;
  *FAIL* | *OUT_OF* | *TIMEOUT* | *CANCEL* | *DEADLINE* | *PREEMPT* | *REVOKED*) echo failed ;;
  *) echo running ;;
esac
