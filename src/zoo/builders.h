// One function per family of models; zoo.cpp knows them by name. `options` is complete: every option of the model has a value.
#pragma once

#include <map>
#include <string>

#include "zoo/zoo.h"

namespace trireme {

using ModelOptions = std::map<std::string, double>;

Model make_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_mnist_convnet(const ModelSpec& spec, const ModelOptions& options);
Model make_cifar_resnet18(const ModelSpec& spec, const ModelOptions& options);
Model make_resnet18(const ModelSpec& spec, const ModelOptions& options);
Model make_skip(const ModelSpec& spec, const ModelOptions& options);
Model make_dropout_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_tied_mlp(const ModelSpec& spec, const ModelOptions& options);
Model make_inception(const ModelSpec& spec, const ModelOptions& options);
Model make_lstm_lm(const ModelSpec& spec, const ModelOptions& options);
Model make_transformer_lm(const ModelSpec& spec, const ModelOptions& options);
Model make_transformer_classifier(const ModelSpec& spec, const ModelOptions& options);

}  // namespace trireme
