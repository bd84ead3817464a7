"""`python -m keras_bert.cli` is `keras-bert`."""

from keras_bert.cli import main

if __name__ == "__main__":
    main()
