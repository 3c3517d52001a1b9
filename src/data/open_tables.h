// Opens the sets of tables and arrays by name. For open.cpp.
#pragma once

#include <filesystem>

#include "data/catalogue.h"
#include "data/open.h"

namespace trireme {

/// "california-housing", "adult", "csv": takes DataSpec::table and on_error.
bool is_table(const std::string& name);

/// "california-housing" or "adult" in the folder that was found.
/// California housing: regression of the median house value in units of 100,000 dollars; the test rows are a fifth of the file, drawn
/// with kSplitSeed. Adult: whether an income is above 50,000 dollars.
TaskData open_table_set(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder);

/// "csv": spec.train_files[0] and spec.test_files[0], or table.test_share of the first where there is no second.
TaskData open_csv(const DataSpec& spec);

/// "tensors": data and target of each split in one file (.npz, .pt or .safetensors with tensors of these names) or in two .npy.
/// Values are taken as they are (floating and integer data become float32; token ids, where tensors.vocabulary says so, int64).
/// The task, unless stated: regression for floating targets; for integer ones segmentation where data is [n, c, h, w] and the target
/// [n, h, w], language where both are token ids of one shape, else classification.
TaskData open_tensors(const DataSpec& spec);

/// Rows of a test split that is drawn from the training file do not depend on the experiment's seed.
inline constexpr uint64_t kSplitSeed = 1;

/// Rows 0..n-1 in random order, cut into training rows and round(n * test_share) test rows.
struct RowSplit {
  std::vector<int64_t> train, test;
};
RowSplit split_rows(int64_t n, double test_share);

}  // namespace trireme
