#!/bin/sh
# How a job stands, in Snakemake's words, for cluster-generic-status-cmd: status.sh JOBID. What sacct does not answer runs on.
case $(sacct -nX -o State%20 -j "$1" 2> /dev/null | head -n 1) in
  *COMPLETED*) echo success ;;
  *FAIL* | *OUT_OF* | *TIMEOUT* | *CANCEL* | *DEADLINE* | *PREEMPT* | *REVOKED*) echo failed ;;
  *) echo running ;;
esac
