#include "data/open_tables.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/npy.h"
#include "data/source_words.h"
#include "data/tensor_dataset.h"
#include "model/weights/read_weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kHousingUnit = 100000;  // dollars
constexpr double kHousingTestShare = 0.2;
constexpr int64_t kImageDims = 4;  // [n, channels, height, width]
constexpr int64_t kMostClasses = int64_t{1} << 24;  // and tokens of a vocabulary

/// A table and those of its rows that make a split.
struct TableSplit {
  const CsvTable& table;
  std::vector<int64_t> rows;
  int64_t limit = 0;  // first rows only; 0: all
};

std::vector<int64_t> all_rows(const CsvTable& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

std::string counted(int64_t n, const char* singular, const char* what) {
  return n == 0 ? "" : fmt::format(", {}{}", count_of(n, singular), what);
}

TaskData make_tables(TableSplit train, TableSplit test, const TableOptions& options, const std::string& title) {
  const auto whole_train = static_cast<int64_t>(train.rows.size()), whole_test = static_cast<int64_t>(test.rows.size());
  for (TableSplit* split : {&train, &test})
    if (split->limit > 0) split->rows.resize(std::min(split->rows.size(), static_cast<size_t>(split->limit)));
  const TableEncoder encoder(train.table, train.rows, options);
  TableEncoder::Encoded learned = encoder.encode(train.table, train.rows), tested = encoder.encode(test.table, test.rows);
  TaskData task;
  const std::string target = encoder.task() == LearningTask::regression ? "regression" : fmt::format("{} classes", encoder.classes());
  task.source = fmt::format("{}, {} features, {}{}", title, encoder.feature_names().size(), target,
                            used_part(static_cast<int64_t>(train.rows.size()), whole_train, static_cast<int64_t>(test.rows.size()),
                                      whole_test, "rows"));
  const bool one_table = &train.table == &test.table;
  task.source += counted(train.table.skipped() + (one_table ? 0 : test.table.skipped()), "unreadable row", " left out");
  task.source += counted(learned.skipped + tested.skipped, "row", " without sound values left out");
  task.source += counted(tested.unknown_categories, "test value", " that no training row has");
  task.train = std::make_shared<TensorDataset>(learned.data, learned.target, encoder.task(), encoder.classes());
  task.test = std::make_shared<TensorDataset>(tested.data, tested.target, encoder.task(), encoder.classes());
  return task;
}

TaskData open_one_table(const DataSpec& spec, const CsvTable& table, double test_share, const TableOptions& options,
                        const std::string& title) {
  if (!(test_share > 0 && test_share < 1))
    fail_user({.where = "data.test_share", .what = fmt::format("{}", test_share), .why = "it is a share of the rows",
               .next = "set a number between 0 and 1, or name a test file"});
  RowSplit split = split_rows(table.rows(), test_share);
  if (split.train.empty() || split.test.empty())
    fail_user({.where = "data.test_share", .what = fmt::format("{} of {}", test_share, count_of(table.rows(), "row")),
               .why = "both splits need a row", .next = "set another share, or name a test file"});
  return make_tables({table, std::move(split.train), spec.train_limit}, {table, std::move(split.test), spec.test_limit}, options, title);
}

TaskData open_housing(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const CsvTable table = read_csv(folder / set.parts[0].names[0], {.trim = true, .on_error = spec.on_error});
  const TableOptions options{.target = "median_house_value", .task = LearningTask::regression, .target_unit = kHousingUnit,
                             .on_error = spec.on_error};
  return open_one_table(spec, table, kHousingTestShare, options, fmt::format("{}, {}", set.title, folder.string()));
}

TaskData open_adult(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const CsvOptions csv{.header = false,
                       .names = {"age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
                                 "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
                                 "income"},
                       .trim = true,
                       .comment = "|",  // the published test file begins with such a line
                       .on_error = spec.on_error};
  const auto file = [&](size_t part) { return find_part(folder, set.parts[part]).value_or(folder / set.parts[part].names[0]); };
  const CsvTable train = read_csv(file(0), csv), test = read_csv(file(1), csv);
  const TableOptions options{.target = "income", .task = LearningTask::classification, .label_tail = ".", .on_error = spec.on_error};
  return make_tables({train, all_rows(train), spec.train_limit}, {test, all_rows(test), spec.test_limit}, options,
                     fmt::format("{}, {}", set.title, folder.string()));
}

struct Arrays {
  at::Tensor data, target;
};

Arrays named_arrays(const fs::path& file, const std::map<std::string, at::Tensor>& tensors) {
  Arrays arrays;
  for (auto [name, tensor] : {std::pair{"data", &arrays.data}, {"target", &arrays.target}}) {
    const auto found = tensors.find(name);
    if (found == tensors.end())
      fail_user({.where = file.string(), .what = fmt::format("no tensor \"{}\"", name),
                 .why = "samples are tensors \"data\" and \"target\"", .next = "save it with these names"});
    *tensor = found->second;
  }
  return arrays;
}

Arrays read_arrays(const std::vector<fs::path>& files, const char* key) {
  const bool one_each = files.size() == 2 && files[0].extension() == ".npy" && files[1].extension() == ".npy";
  if (one_each) return {read_npy(files[0]), read_npy(files[1])};
  if (files.size() != 1 || files[0].extension() == ".npy")
    fail_user({.where = key, .what = count_of(int64_t(files.size()), "file"), .why = "a split is data and target",
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
  return spec.tensors.vocabulary > 0 && target.dim() > 1 && target.sizes() == data.sizes() ? LearningTask::language
                                                                                          : LearningTask::classification;
}

/// User error naming the first of `values` that is not allowed.
void check_all(const at::Tensor& allowed, const at::Tensor& values, const char* what, const fs::path& where, const char* why) {
  if (allowed.all().item<bool>()) return;
  const int64_t first = allowed.logical_not().flatten().to(at::kByte).argmax().item<int64_t>();
  const int64_t per_sample = values.numel() / values.size(0);
  fail_user({.where = where.string(),
             .what = fmt::format("{} of sample {}: {}", what, first / per_sample, values.flatten()[first].item<double>()),
             .why = why, .next = "correct the array"});
}

/// The array in a dtype that training takes. User error naming a value that has no place in it.
at::Tensor converted(const at::Tensor& values, bool numbers, const char* what, const fs::path& where) {
  at::Tensor result = values.to(numbers ? at::kFloat : at::kLong).contiguous();
  if (!values.is_floating_point()) return result;
  if (numbers) check_all(result.isfinite(), values, what, where, "numbers must be finite, in float32");
  else check_all(result.eq(values.to(at::kDouble)), values, what, where, "classes and tokens are whole numbers");
  return result;
}

/// In the dtypes that training takes. User error: an array without samples' dim, a target whose shape is not its task's, values that
/// are no numbers, classes or tokens.
void convert(Arrays& arrays, LearningTask task, int64_t vocabulary, const std::vector<fs::path>& files) {
  const fs::path &where = files.front(), &of_targets = files.back();
  if (arrays.data.dim() == 0 || arrays.target.dim() == 0)
    fail_user({.where = where.string(), .what = "an array without dims", .why = "samples lie along the first dim",
               .next = "save a list of samples"});
  arrays.data = converted(arrays.data, vocabulary == 0, "data", where);
  arrays.target = converted(arrays.target, task == LearningTask::regression, "target", of_targets);
  if (task == LearningTask::regression && arrays.target.dim() == 1) arrays.target = arrays.target.unsqueeze(1);
  const bool flat = task == LearningTask::regression ? arrays.target.dim() == 2 : arrays.target.dim() == 1;
  if ((task == LearningTask::regression || task == LearningTask::classification) && !flat)
    fail_user({.where = where.string(), .what = fmt::format("targets of shape {}", to_string(arrays.target.sizes().vec())),
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
  return std::min(largest, kMostClasses) + 1;  // too many are refused
}

void check_classes(int64_t count, const char* what, const fs::path& where) {
  if (count > kMostClasses)
    fail_user({.where = where.string(), .what = fmt::format("more than {} {}", with_commas(kMostClasses), what),
               .why = "a model has weights for each", .next = "check the values, and what the experiment states of them"});
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

}  // namespace

bool is_table(const std::string& name) { return name == "california-housing" || name == "adult" || name == "csv"; }

RowSplit split_rows(int64_t n, double test_share) {
  std::vector<int64_t> rows = random_permutation(n, random_key(kSplitSeed, "table split"));
  const auto train = n - static_cast<int64_t>(std::llround(static_cast<double>(n) * test_share));
  return {.train = {rows.begin(), rows.begin() + train}, .test = {rows.begin() + train, rows.end()}};
}

TaskData open_table_set(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  return spec.name == "adult" ? open_adult(spec, set, folder) : open_housing(spec, set, folder);
}

TaskData open_csv(const DataSpec& spec) {
  if (spec.train_files.size() != 1 || spec.test_files.size() > 1)
    fail_user({.where = "data.train", .what = fmt::format("{} training and {} test files", spec.train_files.size(), spec.test_files.size()),
               .why = "data set \"csv\" takes one of each, or none to test on", .next = "name one file: train = \"table.csv\""});
  const CsvOptions csv{.separator = spec.table.separator, .header = spec.table.header, .trim = true, .missing = spec.table.missing,
                       .on_error = spec.on_error};
  TableOptions options = spec.table.columns;
  options.on_error = spec.on_error;
  if (!std::isfinite(options.target_unit) || options.target_unit == 0)
    fail_user({.where = "data.target_unit", .what = fmt::format("{}", options.target_unit), .why = "targets are divided by it",
               .next = "set a number other than 0"});
  const CsvTable train = read_csv(spec.train_files[0], csv);
  const std::string title = spec.train_files[0].string();
  if (spec.test_files.empty()) return open_one_table(spec, train, spec.table.test_share, options, title);
  const CsvTable test = read_csv(spec.test_files[0], csv);
  return make_tables({train, all_rows(train), spec.train_limit}, {test, all_rows(test), spec.test_limit}, options, title);
}

TaskData open_tensors(const DataSpec& spec) {
  Arrays train = read_arrays(spec.train_files, "data.train"), test = read_arrays(spec.test_files, "data.test");
  const LearningTask learning = task_of(spec, train);
  const int64_t vocabulary = spec.tensors.vocabulary;
  convert(train, learning, vocabulary, spec.train_files);
  convert(test, learning, vocabulary, spec.test_files);
  const bool alike = train.data.sizes().slice(1) == test.data.sizes().slice(1) &&
                     train.target.sizes().slice(1) == test.target.sizes().slice(1);
  if (!alike)
    fail_user({.where = spec.test_files[0].string(),
               .what = fmt::format("data {} and target {}", to_string(test.data.sizes().vec()), to_string(test.target.sizes().vec())),
               .why = fmt::format("the training samples are {} and {}", to_string(train.data.sizes().vec()),
                                  to_string(train.target.sizes().vec())),
               .next = "samples of both must have one shape"});
  const int64_t classes = classes_of(spec, learning, train, test);
  check_classes(classes, "classes", spec.train_files.back());
  if (learning == LearningTask::classification && classes < 2)
    fail_user({.where = spec.train_files.back().string(), .what = fmt::format("{} class", classes),
               .why = "a classification tells at least two apart", .next = "check the targets, or state classes or the task"});
  check_classes(vocabulary, "tokens", spec.train_files.front());
  auto learned = make_set(train, learning, classes, vocabulary, spec.train_files.back());
  auto tested = make_set(test, learning, classes, vocabulary, spec.test_files.back());
  const int64_t whole_train = learned->size(), whole_test = tested->size();
  learned->keep_first(spec.train_limit);
  tested->keep_first(spec.test_limit);
  TaskData task;
  task.source = fmt::format("{}, samples of {}, {}{}", spec.train_files[0].string(), to_string(learned->sample_shape()), name_of(learning),
                            used_part(learned->size(), whole_train, tested->size(), whole_test, "samples"));
  task.train = std::move(learned);
  task.test = std::move(tested);
  return task;
}

}  // namespace trireme
