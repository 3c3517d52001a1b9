// The named models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/task.h"

namespace trireme {

/// Which model to build. All take inputs "data" (`sample_shape`) and "target" (`target_shape`) and end in the task's loss, named
/// "loss".
struct ModelSpec {
  std::string name;
  Shape sample_shape;
  int64_t classes = 0;                    ///< of the data set: Dataset::classes
  std::map<std::string, double> options = {};  ///< a model's own knobs, see model_options
  LearningTask task = LearningTask::classification;
  Shape target_shape = {};                ///< of one sample's target
  int64_t vocabulary = 0;                 ///< of token ids in "data"; 0: no tokens
  double label_smoothing = 0;             ///< share of a target that is spread over all classes (Szegedy et al., 2015)
  /// Positions of a target with all its padding, where this model is for samples with less; 0: target_shape's. Losses that divide by
  /// positions divide by these, so that padding makes no difference.
  int64_t padded_positions = 0;
  std::vector<double> target_offsets = {};  ///< regression: see MeanSquaredError; makes no difference but to rounding
};

/// mlp            options hidden (256), depth (2: hidden layers)
/// mnist-convnet  two 5x5 convolutions, two fully connected layers
/// resnet18, 34, 50, 101  torchvision's, parameter names included (He et al., 2015); options width (64: channels of the first blocks),
///                batch_norm (1; 0: convolutions, additions and ReLUs alone)
/// cifar-resnet18, ...  the same with a 3x3 stem and no max pool, for small images
/// resnext50      torchvision's ResNeXt-50 32x4d (Xie et al., 2017); options as the ResNets'
/// vgg11, 13, 16, 19 and vgg11-bn, ...  torchvision's (Simonyan and Zisserman, 2014); options width (64), hidden (4096), probability (0.5)
/// densenet121    torchvision's (Huang et al., 2016); options growth (32), probability (0)
/// inception-v3   torchvision's (Szegedy et al., 2015) for images of about 299 pixels; options auxiliary (1: the auxiliary head, whose
///                loss counts 0.4 in training), probability (0.5)
/// vit-b16, vit-tiny  torchvision's VisionTransformer (Dosovitskiy et al., 2020), vit-tiny with width 192 and 3 heads; options layers
///                (12), width, heads, hidden, patch (16 pixels), probability (0)
/// unet, segnet   segmentation; options width (64), unet's depth (4: how often images are halved; an odd height or width grows back as
///                with output_size in PyTorch's ConvTranspose2d)
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
/// gpt2           Hugging Face's GPT2LMHeadModel (Radford et al., 2019); options layers (12), width (768), heads (12), positions (1024),
///                probability (0.1)
/// bert           Hugging Face's BertForSequenceClassification (Devlin et al., 2018); options as gpt2's, positions (512)
/// bag-of-words   the mean of the words' vectors, and a linear layer (Joulin et al., 2016); options width (100)
/// big-lstm       LSTMs with projections (Jozefowicz et al., 2016); options layers (2), hidden (8192), projection (1024), samples (8192
///                classes that a training step compares with; 0: all), probability (0.1), stateful (1)
/// gnmt           translation (Wu et al., 2016); options layers (8 each to encode and to decode), width (1024), probability (0.2)
/// Errors: user error that lists the known names or options; layers' own errors about shapes.
Model make_model(const ModelSpec& spec);

std::vector<std::string> model_names();
/// Whether the model's "data" is token ids.
bool reads_tokens(const std::string& name);
/// Whether the model is for the task, on data of token ids or of numbers.
bool does(const std::string& name, LearningTask task, bool tokens);
/// The names of all models of which `does` is true.
std::vector<std::string> models_for(LearningTask task, bool tokens);
/// Options of a named model with their defaults.
std::map<std::string, double> model_options(const std::string& name);

}  // namespace trireme
