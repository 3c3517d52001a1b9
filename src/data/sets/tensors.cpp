#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>

#include "data/catalogue.h"
#include "data/tables/npy.h"
#include "data/tables/table_sets.h"
#include "data/tables/tensor_dataset.h"
#include "data/task_data.h"
#include "model/weights/read_weights.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kImageDims = 4;                   // [n, channels, height, width]
constexpr int64_t kMostClasses = int64_t{1} << 24;  // also of a vocabulary's tokens

struct Arrays {
  at::Tensor data, target;
};

Arrays named_arrays(const fs::path& file, const std::map<std::string, at::Tensor>& tensors) {
  Arrays arrays;
  for (auto [name, tensor] : {std::pair{"data", &arrays.data}, {"target", &arrays.target}}) {
    const auto found = tensors.find(name);
    if (found == tensors.end())
      fail_user({.where = file.string(),
                 .what = fmt::format("no tensor \"{}\"", name),
                 .why = "samples are tensors \"data\" and \"target\"",
                 .next = "save it with these names"});
    *tensor = found->second;
  }
  return arrays;
}

Arrays read_arrays(const std::vector<fs::path>& files, const char* key) {
  const bool one_each = files.size() == 2 && files[0].extension() == ".npy" && files[1].extension() == ".npy";
  if (one_each) return {read_npy(files[0]), read_npy(files[1])};
  if (files.size() != 1 || files[0].extension() == ".npy")
    fail_user({.where = key,
               .what = count_of(int64_t(files.size()), "file"),
               .why = "a split consists of data and target",
               .next = "name one .npz, .pt or .safetensors, or two .npy: [\"data.npy\", \"target.npy\"]"});
  if (files[0].extension() != ".npz") return named_arrays(files[0], read_weights(files[0]).tensors);
  std::map<std::string, at::Tensor> arrays;
  for (auto& [name, array] : read_npz(files[0])) arrays.emplace(name, std::move(array));
  return named_arrays(files[0], arrays);
}

LearningTask task_of(const DataSpec& spec, const Arrays& arrays) {
  if (spec.tensors.task) return *spec.tensors.task;
  const at::Tensor &data = arrays.data, &target = arrays.target;
  if (target.is_floating_point()) return LearningTask::regression;
  const bool pixels = data.dim() == kImageDims && target.dim() == kImageDims - 1 && target.size(1) == data.size(2) &&
                      target.size(2) == data.size(3);
  if (pixels) return LearningTask::segmentation;
  return spec.tensors.vocabulary > 0 && target.dim() > 1 && target.sizes() == data.sizes()
             ? LearningTask::language
             : LearningTask::classification;
}

/// Throws a user error that names the first of `values` that is not allowed.
void check_all(const at::Tensor& allowed, const at::Tensor& values, const char* what, const fs::path& where,
               const char* why) {
  if (allowed.all().item<bool>()) return;
  const int64_t first = allowed.logical_not().flatten().to(at::kByte).argmax().item<int64_t>();
  const int64_t per_sample = values.numel() / values.size(0);
  fail_user(
      {.where = where.string(),
       .what = fmt::format("{} of sample {}: {}", what, first / per_sample, values.flatten()[first].item<double>()),
       .why = why,
       .next = "correct the array"});
}

/// Returns the array in a dtype that training uses. User error naming a value that this dtype cannot represent.
at::Tensor converted(const at::Tensor& values, bool numbers, const char* what, const fs::path& where) {
  at::Tensor result = values.to(numbers ? at::kFloat : at::kLong).contiguous();
  if (!values.is_floating_point()) return result;
  if (numbers) check_all(result.isfinite(), values, what, where, "numbers must be finite, in float32");
  else check_all(result.eq(values.to(at::kDouble)), values, what, where, "classes and tokens are whole numbers");
  return result;
}

/// Converts the arrays to the dtypes that training uses. User errors: an array without a samples' dim; a target whose
/// shape does not suit its task; values that are not valid numbers, classes or tokens.
void convert(Arrays& arrays, LearningTask task, int64_t vocabulary, const std::vector<fs::path>& files) {
  const fs::path &where = files.front(), &of_targets = files.back();
  if (arrays.data.dim() == 0 || arrays.target.dim() == 0)
    fail_user({.where = where.string(),
               .what = "an array without dims",
               .why = "samples lie along the first dim",
               .next = "save a list of samples"});
  arrays.data = converted(arrays.data, vocabulary == 0, "data", where);
  arrays.target = converted(arrays.target, task == LearningTask::regression, "target", of_targets);
  if (task == LearningTask::regression && arrays.target.dim() == 1) arrays.target = arrays.target.unsqueeze(1);
  const bool flat = task == LearningTask::regression ? arrays.target.dim() == 2 : arrays.target.dim() == 1;
  if ((task == LearningTask::regression || task == LearningTask::classification) && !flat)
    fail_user(
        {.where = where.string(),
         .what = fmt::format("targets of shape {}", to_string(arrays.target.sizes().vec())),
         .why = fmt::format("{} takes {}", name_of(task), task == LearningTask::regression ? "[n, values]" : "[n]"),
         .next = "save them in this shape, or state the task"});
}

int64_t classes_of(const DataSpec& spec, LearningTask task, const Arrays& train, const Arrays& test) {
  if (task == LearningTask::regression) return train.target.size(1);
  if (spec.tensors.classes > 0) return spec.tensors.classes;
  if (task == LearningTask::language || task == LearningTask::translation) return spec.tensors.vocabulary;
  int64_t largest = 0;
  for (const Arrays* arrays : {&train, &test})
    if (arrays->target.numel() > 0) largest = std::max(largest, arrays->target.max().item<int64_t>());
  return std::min(largest, kMostClasses) + 1;  // check_classes rejects too many
}

void check_classes(int64_t count, const char* what, const fs::path& where) {
  if (count > kMostClasses)
    fail_user({.where = where.string(),
               .what = fmt::format("more than {} {}", with_commas(kMostClasses), what),
               .why = "a model would need weights for each",
               .next = "check the values, and data.classes or data.vocabulary"});
}

/// User errors: those of TensorDataset, with the file's name.
std::shared_ptr<TensorDataset> make_set(const Arrays& arrays, LearningTask task, int64_t classes, int64_t vocabulary,
                                        const fs::path& where) {
  try {
    return std::make_shared<TensorDataset>(arrays.data, arrays.target, task, classes, vocabulary);
  } catch (const Error& error) {
    Diagnosis diagnosis = error.diagnosis();
    diagnosis.where = fmt::format("{}: {}", where.string(), diagnosis.where);
    throw Error(error.blame(), std::move(diagnosis));
  }
}

void read_tensor_keys(const ConfigTable& table, const fs::path&, DataSpec& spec) {
  spec.tensors.task = read_task(table);
  spec.tensors.classes = table.get_int("classes", 0, 0);
  spec.tensors.vocabulary = table.get_int("vocabulary", 0, 0);
}

/// Opens data and target of each split from one file (.npz, .pt or .safetensors with tensors of these names) or from
/// two .npy. Floating and integer data become float32; token ids (if tensors.vocabulary is set) become int64. The task,
/// unless stated: regression for floating targets; for integer targets segmentation if data is [n, c, h, w] and the
/// target [n, h, w], language if both are token ids of one shape, else classification.
TaskData open_tensors(const DataSpec& spec, const KnownSet&, const fs::path&) {
  Arrays train = read_arrays(spec.train_files, "data.train"), test = read_arrays(spec.test_files, "data.test");
  const LearningTask learning = task_of(spec, train);
  const int64_t vocabulary = spec.tensors.vocabulary;
  convert(train, learning, vocabulary, spec.train_files);
  convert(test, learning, vocabulary, spec.test_files);
  const bool alike = train.data.sizes().slice(1) == test.data.sizes().slice(1) &&
                     train.target.sizes().slice(1) == test.target.sizes().slice(1);
  if (!alike)
    fail_user({.where = spec.test_files[0].string(),
               .what = fmt::format("data {} and target {}", to_string(test.data.sizes().vec()),
                                   to_string(test.target.sizes().vec())),
               .why = fmt::format("the training samples are {} and {}", to_string(train.data.sizes().vec()),
                                  to_string(train.target.sizes().vec())),
               .next = "samples of both must have one shape"});
  const int64_t classes = classes_of(spec, learning, train, test);
  check_classes(classes, "classes", spec.train_files.back());
  if (learning == LearningTask::classification && classes < 2)
    fail_user({.where = spec.train_files.back().string(),
               .what = fmt::format("{} class", classes),
               .why = "classification needs at least two classes",
               .next = "check the targets, or state classes or the task"});
  check_classes(vocabulary, "tokens", spec.train_files.front());
  auto learned = make_set(train, learning, classes, vocabulary, spec.train_files.back());
  auto tested = make_set(test, learning, classes, vocabulary, spec.test_files.back());
  const std::string title = fmt::format("{}, samples of {}, {}", spec.train_files[0].string(),
                                        to_string(learned->sample_shape()), name_of(learning));
  return limited_task(spec, std::move(learned), std::move(tested), title, "samples");
}

}  // namespace

KnownSet tensors() {
  return {.name = "tensors",
          .title = "arrays",
          .description = "any arrays of samples and targets",
          .origin = DataOrigin::own_files,
          .keys = {"task", "classes", "vocabulary"},
          .read = read_tensor_keys,
          .open = open_tensors,
          .shape = [](const DataSpec& spec) {
            const TensorSpec& stated = spec.tensors;
            return SetShape{.task = stated.task, .classes = stated.classes, .vocabulary = stated.vocabulary};
          }};
}

}  // namespace trireme::sets
