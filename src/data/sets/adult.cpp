#include "data/catalogue.h"
#include "data/tables/table_sets.h"

namespace trireme::sets {
namespace {

/// Classification: whether an income is above 50,000 dollars.
TaskData open_adult(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const CsvOptions csv{.header = false,
                       .names = {"age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
                                 "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss",
                                 "hours-per-week", "native-country", "income"},
                       .trim = true,
                       .comment = "|",  // the published test file begins with such a line
                       .on_error = spec.on_error};
  const auto file = [&](size_t part) {
    return find_part(folder, set.parts[part]).value_or(folder / set.parts[part].names[0]);
  };
  const CsvTable train = read_csv(file(0), csv), test = read_csv(file(1), csv);
  const TableOptions options{
      .target = "income", .task = LearningTask::classification, .label_tail = ".", .on_error = spec.on_error};
  return make_tables({train, all_rows(train), spec.train_limit}, {test, all_rows(test), spec.test_limit}, options,
                     set.found_in(folder));
}

}  // namespace

// B. Becker and R. Kohavi's files of the UCI Machine Learning Repository.
KnownSet adult() {
  return {.name = "adult",
          .title = "Adult",
          .description = "incomes above or below 50,000 dollars, 14 columns, 32,561 + 16,281 rows",
          .task = LearningTask::classification,
          .folders = {"adult"},
          .parts = {{{"adult.data", "adult-train.csv"}, 3974305}, {{"adult.test", "adult-test.csv"}, 2003153}},
          .sources = published_at(
              "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
              {{"adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", 3974305},
               {"adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", 2003153}}),
          .keys = {"on_error"},
          .open = open_adult,
          .shape = [](const DataSpec&) {
            return SetShape{
                .task = LearningTask::classification, .sample = {108}, .classes = 2, .train = 32'561, .test = 16'281};
          }};
}

}  // namespace trireme::sets
