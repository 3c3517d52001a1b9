#include "data/tables/table_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "data/source_words.h"
#include "data/tables/tensor_dataset.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::string counted(int64_t n, const char* singular, const char* what) {
  return n == 0 ? "" : fmt::format(", {}{}", count_of(n, singular), what);
}

}  // namespace

std::optional<LearningTask> read_task(const ConfigTable& table) {
  if (!table.has("task")) return std::nullopt;
  constexpr LearningTask kTasks[] = {LearningTask::classification, LearningTask::segmentation, LearningTask::language,
                                     LearningTask::translation, LearningTask::regression};
  std::vector<std::string> names;
  for (LearningTask task : kTasks) names.emplace_back(name_of(task));
  const std::string chosen = table.get_choice("task", names.front(), names);
  return kTasks[std::find(names.begin(), names.end(), chosen) - names.begin()];
}

RowSplit split_rows(int64_t n, double test_share) {
  std::vector<int64_t> rows = random_permutation(n, random_key(kSplitSeed, "table split"));
  const auto train = n - static_cast<int64_t>(std::llround(static_cast<double>(n) * test_share));
  return {.train = {rows.begin(), rows.begin() + train}, .test = {rows.begin() + train, rows.end()}};
}

std::vector<int64_t> all_rows(const CsvTable& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

TaskData make_tables(TableSplit train, TableSplit test, const TableOptions& options, const std::string& title) {
  const auto whole_train = static_cast<int64_t>(train.rows.size()), whole_test = static_cast<int64_t>(test.rows.size());
  for (TableSplit* split : {&train, &test})
    if (split->limit > 0) split->rows.resize(std::min(split->rows.size(), static_cast<size_t>(split->limit)));
  const TableEncoder encoder(train.table, train.rows, options);
  TableEncoder::Encoded learned = encoder.encode(train.table, train.rows),
                        tested = encoder.encode(test.table, test.rows);
  TaskData task;
  const std::string target =
      encoder.task() == LearningTask::regression ? "regression" : fmt::format("{} classes", encoder.classes());
  task.source = fmt::format("{}, {} features, {}{}", title, encoder.feature_names().size(), target,
                            used_part(static_cast<int64_t>(train.rows.size()), whole_train,
                                      static_cast<int64_t>(test.rows.size()), whole_test, "rows"));
  const bool one_table = &train.table == &test.table;
  task.source += counted(train.table.skipped() + (one_table ? 0 : test.table.skipped()), "unreadable row", " left out");
  task.source += counted(learned.skipped + tested.skipped, "row", " with invalid values left out");
  task.source += counted(tested.unknown_categories, "test value", " that no training row has");
  task.train = std::make_shared<TensorDataset>(learned.data, learned.target, encoder.task(), encoder.classes());
  task.test = std::make_shared<TensorDataset>(tested.data, tested.target, encoder.task(), encoder.classes());
  task.inputs = std::make_shared<const InputForm>(encoder.form());
  return task;
}

TaskData open_one_table(const DataSpec& spec, const CsvTable& table, double test_share, const TableOptions& options,
                        const std::string& title) {
  if (!(test_share > 0 && test_share < 1))
    fail_user({.where = "data.test_share",
               .what = fmt::format("{}", test_share),
               .why = "it is a share of the rows",
               .next = "set a number between 0 and 1, or name a test file"});
  RowSplit split = split_rows(table.rows(), test_share);
  if (split.train.empty() || split.test.empty())
    fail_user({.where = "data.test_share",
               .what = fmt::format("{} of {}", test_share, count_of(table.rows(), "row")),
               .why = "both splits need a row",
               .next = "set another share, or name a test file"});
  return make_tables({table, std::move(split.train), spec.train_limit}, {table, std::move(split.test), spec.test_limit},
                     options, title);
}

}  // namespace trireme
