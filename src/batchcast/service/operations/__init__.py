"""For whoever runs the service: doctor, metrics, systemd units."""
