"""Storage: files and folders that appear completely or not at all, JSON, digests and locks.

Paths are of this machine or of any file system that TensorFlow knows, such as gs://. TensorFlow is imported only for
the latter.
"""

from keras_bert.storage.files import (
    check_ending,
    errors_about,
    exists,
    make_folder,
    most_unpacked,
    names_in,
    new_file,
    new_keras_file,
    open_file,
    output_file,
    read_bytes,
    read_text,
    remove,
    sha256_of,
    size_of,
    write_text,
)
from keras_bert.storage.folders import check_new_folder, new_folder, new_parents, only_file
from keras_bert.storage.json_files import as_read, json_list, json_object, read_json, write_json
from keras_bert.storage.locks import in_use_error, lock, locked_folder
from keras_bert.storage.paths import is_remote, literal_path, matching, temporary_path
