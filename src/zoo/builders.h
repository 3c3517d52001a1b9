// The registry of models. Each file describes its own models; one line in zoo.cpp adds a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "zoo/model_spec.h"

namespace trireme {

using ModelOptions = std::map<std::string, double>;

/// Hidden units of a transformer's feed-forward layer, per unit of its width.
inline constexpr int64_t kHiddenPerWidth = 4;

/// An option of a model.
struct ModelOption {
  enum class Kind {
    size,          ///< a whole number from 1 on
    size_or_none,  ///< or 0
    count,         ///< a number of layers: a whole number from 1 on, with a smaller maximum
    share,         ///< at least 0, below 1
    flag,          ///< 0 or 1
  };
  const char* name;
  double usual;
  Kind kind = Kind::size;
};

/// What a model is for, and what it reads.
struct ModelUse {
  std::vector<LearningTask> tasks = {LearningTask::classification, LearningTask::regression};
  bool tokens = false;  ///< "data" is token ids
};

struct NamedModel {
  const char* name;
  const char* description;  ///< one line
  /// `options` is complete: it has a value for every option of the model.
  Model (*make)(const ModelSpec& spec, const ModelOptions& options);
  std::vector<ModelOption> options = {};
  ModelUse use = {};
};

std::vector<NamedModel> mlp_models();
std::vector<NamedModel> mnist_convnet_models();
std::vector<NamedModel> resnet_models();
std::vector<NamedModel> vgg_models();
std::vector<NamedModel> densenet_models();
std::vector<NamedModel> inception_v3_models();
std::vector<NamedModel> vision_transformer_models();
std::vector<NamedModel> segmentation_models();
std::vector<NamedModel> odd_mlp_models();
std::vector<NamedModel> inception_models();
std::vector<NamedModel> lstm_lm_models();
std::vector<NamedModel> transformer_lm_models();
std::vector<NamedModel> gpt2_models();
std::vector<NamedModel> big_lstm_models();
std::vector<NamedModel> bag_of_words_models();
std::vector<NamedModel> bert_models();
std::vector<NamedModel> gnmt_models();
std::vector<NamedModel> transformer_classifier_models();

}  // namespace trireme
