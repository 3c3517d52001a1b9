// The quantities that a study's tables and charts show, by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/result.h"
#include "report/columns.h"

namespace trireme {

/// The rows of one run of a study.
struct StudyRows {
  ExperimentResult result;  ///< with the first seed
  /// The same rows with each further seed; empty: every row was trained once.
  std::vector<ExperimentResult> more_seeds = {};
  /// The rows of the run that the study names as base; they must outlive these. Null: these have bases of their own.
  const StudyRows* base = nullptr;
  /// By row: the value that a search chose, for example "optimizer.learning_rate=0.03". Empty: nothing was searched.
  std::vector<std::string> chosen = {};
};

/// Names of all quantities, in the order of docs/studies.md.
std::vector<std::string> quantity_names();

/// If the quantity is a price, returns the quantity of the time that is paid: "time per epoch" for "price of an epoch".
/// Empty: it is no price.
std::string_view time_with_price(std::string_view name);

/// Returns the number of a row, the mean over its seeds, or nullopt if it was not measured with each of them: seconds,
/// bytes, shares, money, counts. Numbers that compare with another row compare rows of one seed. Unknown names are
/// internal errors.
std::optional<double> quantity_of(std::string_view name, const StudyRows& rows, size_t row);

/// Returns the standard deviation over the row's seeds (with n - 1); nullopt where it was trained once.
std::optional<double> spread_of(std::string_view name, const StudyRows& rows, size_t row);

/// How numbers of a quantity are written in one table or chart.
struct QuantityScale {
  std::string unit;  ///< "ms", "%"; may be empty
  double size = 1;   ///< in the quantity's own unit
  bool whole = false;
  bool is_money = false;
};

/// `largest`: the largest number that is shown. The metric of `rows` decides the unit of results.
QuantityScale scale_of(std::string_view name, const StudyRows& rows, double largest);

/// Returns a column with a cell for each number, in one unit, "97.2 ± 0.3" where it has a spread. `title`: of the
/// column.
Column number_column(std::string title, std::string_view name, const StudyRows& rows,
                     const std::vector<std::optional<double>>& numbers,
                     const std::vector<std::optional<double>>& spreads = {});

/// "accuracy" for the quantity "result" of a classifier, otherwise the quantity's name.
std::string title_of(std::string_view name, const StudyRows& rows);

}  // namespace trireme
