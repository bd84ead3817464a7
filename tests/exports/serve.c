/* Serves a SavedModel of texts without Python: strings in, one output of a signature out.

   serve TF_TEXT_FOLDER SAVED_MODEL INPUT OUTPUT TEXT...

   TensorFlow's C library, TensorFlow Text's op libraries, and nothing else. INPUT and OUTPUT are tensors of the graph; each text gives one line. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(1);
}

static void load_ops(const char *folder, TF_Status *status) {
  const char *names[] = {"_fast_wordpiece_tokenizer.so", "_normalize_ops.so"};
  for (int i = 0; i < 2; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    TF_LoadLibrary(path, status);
    check(status, path);
  }
}

/* Where a signature's input or output lies in the graph, such as serving_default_text:0, as saved_model_cli shows it. */
static TF_Output find(TF_Graph *graph, const char *tensor) {
  char name[1024];
  snprintf(name, sizeof name, "%s", tensor);
  char *colon = strrchr(name, ':');
  if (colon == NULL) {
    fprintf(stderr, "a tensor is NAME:NUMBER, not %s\n", tensor);
    exit(2);
  }
  *colon = '\0';
  TF_Output found = {TF_GraphOperationByName(graph, name), atoi(colon + 1)};
  if (found.oper == NULL) {
    fprintf(stderr, "the graph has no operation %s\n", name);
    exit(1);
  }
  return found;
}

static TF_Tensor *strings(int count, char **texts) {
  int64_t shape[] = {count};
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, shape, 1, count * sizeof(TF_TString));
  TF_TString *data = TF_TensorData(tensor);
  for (int i = 0; i < count; ++i) {
    TF_TString_Init(&data[i]);
    TF_TString_Copy(&data[i], texts[i], strlen(texts[i]));
  }
  return tensor;
}

static void print_rows(const TF_Tensor *tensor) {
  int64_t rows = TF_Dim(tensor, 0), width = TF_TensorElementCount(tensor) / (rows ? rows : 1);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const void *data = TF_TensorData(tensor);
      int64_t at = i * width + j;
      switch (TF_TensorType(tensor)) {
        case TF_FLOAT: printf("%.9g ", ((const float *)data)[at]); break;
        case TF_INT32: printf("%d ", ((const int32_t *)data)[at]); break;
        case TF_BOOL: printf("%d ", ((const unsigned char *)data)[at]); break;
        case TF_STRING: {
          const TF_TString *text = (const TF_TString *)data + at;
          printf("%.*s ", (int)TF_TString_GetSize(text), TF_TString_GetDataPointer(text));
          break;
        }
        default: fprintf(stderr, "no way to print this type\n"); exit(1);
      }
    }
    printf("\n");
  }
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: serve TF_TEXT_FOLDER SAVED_MODEL INPUT OUTPUT TEXT...\n");
    return 2;
  }
  TF_Status *status = TF_NewStatus();
  load_ops(argv[1], status);

  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[2], tags, 1, graph, NULL, status);
  check(status, argv[2]);

  TF_Output input = find(graph, argv[3]), output = find(graph, argv[4]);
  TF_Tensor *texts = strings(argc - 5, argv + 5), *answers = NULL;
  TF_SessionRun(session, NULL, &input, &texts, 1, &output, &answers, 1, NULL, 0, NULL, status);
  check(status, "run");
  print_rows(answers);

  TF_DeleteTensor(texts);
  TF_DeleteTensor(answers);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return 0;
}
