"""`python -m keras_bert_cli` is `keras-bert`."""

from keras_bert_cli import main

if __name__ == "__main__":
    main()
