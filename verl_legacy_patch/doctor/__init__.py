"""What will fail on this machine, for this checkout and this GPU, with the message that the user would see."""
