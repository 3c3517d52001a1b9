#include "data/catalogue.h"
#include "data/tables/table_sets.h"

namespace trireme::sets {
namespace {

constexpr double kUnit = 100000;  // dollars
constexpr double kTestShare = 0.2;

/// Regression of the median house value; the test rows are drawn with kSplitSeed.
TaskData open_housing(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const CsvTable table = read_csv(folder / set.parts[0].names[0], {.trim = true, .on_error = spec.on_error});
  const TableOptions options{.target = "median_house_value",
                             .task = LearningTask::regression,
                             .target_unit = kUnit,
                             .on_error = spec.on_error};
  return open_one_table(spec, table, kTestShare, options, set.found_in(folder));
}

}  // namespace

// As published by A. Geron with "Hands-on machine learning": the 1990 census of California, with 207 values removed.
KnownSet california_housing() {
  return {.name = "california-housing",
          .title = "California housing",
          .description = "prices of houses by district, 9 columns, 20,640 rows",
          .task = LearningTask::regression,
          .folders = {"california-housing", "housing"},
          .parts = {{{"housing.csv"}, 1423529}},
          .sources = {{"housing.csv",
                       "2364609dc48bec7df3ba9dbb7041478e704ecddcee70ef1827ec3fc49d22c0cc",
                       1423529,
                       {"https://raw.githubusercontent.com/ageron/data/main/housing/housing.csv"}}},
          .keys = {"on_error"},
          .open = open_housing,
          .shape = [](const DataSpec&) {
            return SetShape{.task = LearningTask::regression,
                            .sample = {14},
                            .target = {1},
                            .classes = 1,
                            .train = 16'512,
                            .test = 4'128};
          }};
}

}  // namespace trireme::sets
