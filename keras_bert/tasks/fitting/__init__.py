"""What `fit` does beside Keras: its callbacks, validation, several devices."""
