"""What PBS Pro, OpenPBS and Torque print, as columns and sightings. Pure."""
