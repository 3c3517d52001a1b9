// Fits constants of a cost model to measured seconds, and says which constants the measurements determine.
//
// What is fitted are logarithms of constants, by least squares on log(predicted / measured): a Gauss-Newton iteration
// with halved steps, within bounds. Which constants are fitted follows from their sensitivities, d log(predicted) /
// d log(constant) of every row:
// - Constants are chosen one after the other, each time the one with which a fit is the most likely: by its residuals,
// with
//   5 % as the usual error of a step, and by the changes of the constants, with a factor of 2 as a usual change. A
//   constant whose effect begins only far from its value (launches, while the device is slower than the host) is also
//   tried there. One that ends at its limit is chosen only where no other is. After each choice, another constant may
//   take the place of an earlier one.
// - A fit counts only if the rows determine all its constants. What they say of one is the part of its sensitivity that
//   those of the others cannot imitate (orthogonal to theirs), as in Yao et al., "Modeling ethylene/butene
//   copolymerization with multi-site catalysts: parameter estimability and experimental design", Polymer Reaction
//   Engineering 11 (2003). Its norm over all rows must be 0.1: then 2 % of noise in the seconds are 20 % of the
//   constant. And it must be a tenth of the whole sensitivity, else the others imitate the constant up to a tenth: a
//   collinearity index of 10 (Brun et al., "Practical identifiability analysis of large environmental simulation
//   models", Water Resources Research 37, 2001, where 5 to 20 are limits).
// - At most one constant less than there are rows (of one row: one).
// - Of the fits along this path, the result is the smallest whose error on rows left out (below) is within a tenth of
//   the least. So a constant that only follows noise is left. Rows that alone determine a constant (leverage above
//   0.95) do not count there: nothing can predict them.
//
// Rows left out, one after the other: the fit without the row is linearised at the fit with all; what the other rows do
// not determine keeps the value with which it began. The row is then predicted by the cost model, not linearly.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// A constant with its value before the fit. 0 < least <= value <= most.
struct FreeConstant {
  std::string name;
  double value = 0;
  double least = 0, most = 0;
};

/// Returns the seconds of a row with these values of all constants. Both are more than 0.
using RowSeconds = std::function<double(size_t row, const std::vector<double>& values)>;

struct FittedConstant {
  size_t constant = 0;
  /// Standard error of the logarithm, from the scatter of the rows: 0.05 is 5 %. Without it: no more rows than fitted
  /// constants.
  std::optional<double> error;
  bool is_at_bound = false;
  std::vector<double> weights;  ///< by row: d log(constant) / d log(measured seconds of the row)
};

enum class LeftOut {
  no_effect,      ///< no row depends on it
  little_effect,  ///< rows depend on it too little
  alike,          ///< rows cannot tell it apart from others
  too_few_rows,   ///< they determine the others, and no more
  no_better,      ///< with it, rows that are left out are not predicted better
};

/// A constant that keeps its value.
struct LeftConstant {
  size_t constant = 0;
  LeftOut reason = LeftOut::no_effect;
  double sensitivity = 0;      ///< greatest of all rows, at the fitted values
  std::vector<size_t> others;  ///< alike: the fitted constants that imitate it
};

struct CalibrationFit {
  std::vector<double> values;          ///< of all constants
  std::vector<double> before, after;   ///< predicted seconds by row
  std::vector<double> left_out;        ///< of each row by a fit without it; empty below three rows
  std::vector<FittedConstant> fitted;  ///< in the order in which they were chosen
  std::vector<LeftConstant> left;      ///< in the order of the constants
};

struct CalibrationRules {
  /// true: fits every constant that the rows determine, up to one per row, for constants that a person has chosen.
  bool all = false;
};

/// `measured`: seconds of the rows, at least one.
CalibrationFit calibrate(const std::vector<FreeConstant>& constants, const std::vector<double>& measured,
                         const RowSeconds& seconds, const CalibrationRules& rules = {});

}  // namespace trireme
