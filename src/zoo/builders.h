// One function per family of models; zoo.cpp knows them by name. `options` is complete: every option of the model has a value.
#pragma once

#include <map>
#include <string>

#include "zoo/zoo.h"

namespace trireme {

using ModelOptions = std::map<std::string, double>;

Model make_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_mnist_convnet(const ModelSpec& spec, const ModelOptions& options);
/// Which ResNet.
struct ResNetKind {
  int depth = 18;             ///< 18, 34, 50, 101
  bool small_images = false;  ///< a 3x3 stem without pool, for CIFAR
  int64_t groups = 1, group_width = 64;  ///< of bottleneck blocks: 32 and 4 make ResNeXt-50 32x4d
};
Model make_resnet(const ModelSpec& spec, const ModelOptions& options, const ResNetKind& kind);
/// `depth` 11, 13, 16 or 19.
Model make_vgg(const ModelSpec& spec, const ModelOptions& options, int depth, bool batch_norm);
Model make_densenet121(const ModelSpec& spec, const ModelOptions& options);
Model make_inception_v3(const ModelSpec& spec, const ModelOptions& options);
Model make_vision_transformer(const ModelSpec& spec, const ModelOptions& options);
Model make_unet(const ModelSpec& spec, const ModelOptions& options);
Model make_segnet(const ModelSpec& spec, const ModelOptions& options);
Model make_gpt2(const ModelSpec& spec, const ModelOptions& options);
Model make_bag_of_words(const ModelSpec& spec, const ModelOptions& options);
Model make_bert(const ModelSpec& spec, const ModelOptions& options);
Model make_big_lstm(const ModelSpec& spec, const ModelOptions& options);
Model make_gnmt(const ModelSpec& spec, const ModelOptions& options);
Model make_skip(const ModelSpec& spec, const ModelOptions& options);
Model make_dropout_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_tied_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_inception(const ModelSpec& spec, const ModelOptions& options);
Model make_lstm_lm(const ModelSpec& spec, const ModelOptions& options);
Model make_transformer_lm(const ModelSpec& spec, const ModelOptions& options);
Model make_transformer_classifier(const ModelSpec& spec, const ModelOptions& options);

}  // namespace trireme
