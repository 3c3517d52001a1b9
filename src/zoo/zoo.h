// The named models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model.h"

namespace trireme {

/// Which model to build. All take inputs "data" (`sample_shape`) and "target" (a class index) and end in a softmax cross
/// entropy named "loss" over logits of `classes`.
struct ModelSpec {
  std::string name;
  Shape sample_shape;
  int64_t classes = 0;
  std::map<std::string, double> options;  ///< a model's own knobs, see model_options
};

/// mlp            options hidden (256), depth (2: hidden layers)
/// mnist-convnet  two 5x5 convolutions, two fully connected layers
/// cifar-resnet18 ResNet-18 with a 3x3 stem and no max pool (He et al., 2015); options width (64: channels of the first blocks),
///                batch_norm (1; 0: convolutions, additions and ReLUs alone)
/// resnet18       torchvision's ResNet-18, parameter names and count included; options width (64), batch_norm (1)
/// skip           a chain of fully connected layers with a skip connection from its start to its end; options hidden (32)
/// dropout-mlp    fully connected with dropout; options hidden (64), probability (0.5)
/// tied-mlp       two fully connected layers share one weight; options hidden (32)
/// inception      a small GoogLeNet of two Inception blocks; options width (64, a multiple of 4), batch_norm (1)
/// lstm-lm        a language model of LSTM layers over a stream of text; options layers (2), width (200), probability (0: dropout),
///                stateful (1; 0: every sample starts from zeros)
/// transformer-lm a language model in the manner of GPT-2, as long as the samples; options layers (4), width (128), heads (4),
///                probability (0: dropout), tied (1: the head's weight is the embedding's)
/// transformer-classifier  an encoder over an image's patches (or a sequence of vectors) and the mean of its positions; options
///                layers (4), width (64), heads (4), patch (4 pixels), probability (0: dropout)
/// Errors: user error that lists the known names or options; layers' own errors about shapes.
Model make_model(const ModelSpec& spec);

std::vector<std::string> model_names();
/// Whether the model is one of language: "data" is token ids [steps], "target" has the same shape, classes are the vocabulary.
bool reads_tokens(const std::string& name);
/// Options of a named model with their defaults.
std::map<std::string, double> model_options(const std::string& name);

}  // namespace trireme
