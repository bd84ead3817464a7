"""`python -m keras_bert.cli` is `keras-bert`. The commands are in keras_bert_cli."""

from keras_bert_cli import main

if __name__ == "__main__":
    main()
