// The registry of models. Each file describes its own models; one line in zoo.cpp adds a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/zoo.h"

namespace trireme {

/// Hidden units of a transformer's feed-forward layer, per unit of its width.
inline constexpr int64_t kHiddenPerWidth = 4;

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
std::vector<NamedModel> llama_models();
std::vector<NamedModel> big_lstm_models();
std::vector<NamedModel> bag_of_words_models();
std::vector<NamedModel> bert_models();
std::vector<NamedModel> gnmt_models();
std::vector<NamedModel> transformer_classifier_models();

}  // namespace trireme
