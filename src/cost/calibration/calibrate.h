// Fits constants of a cost model to measured seconds, and finds which constants the measurements determine. A row is
// one measurement; "predicted" is what the cost model gives for it.
//
// The logarithms of the constants are fitted by least squares on log(predicted / measured): a Gauss-Newton iteration
// with halved steps, within bounds. The choice of the fitted constants depends on their sensitivities, d log(predicted)
// / d log(constant) of every row:
// - Constants are chosen one after the other, each time the one with which a fit is the most likely: by its residuals
//   (5 % is the usual error of a step) and by the changes of the constants (a factor of 2 is a usual change). A
//   constant that has an effect only far from its value (launches, while the device is slower than the host) is also
//   tried there. A constant that ends at one of its bounds is chosen only as the first one, and only if no other can be
//   chosen. After each choice, another constant may take the place of an earlier one.
// - A fit counts only if the rows determine all its constants. The information about one constant is the part of its
//   sensitivity that is orthogonal to the sensitivities of the others, as in Yao et al., "Modeling ethylene/butene
//   copolymerization with multi-site catalysts: parameter estimability and experimental design", Polymer Reaction
//   Engineering 11 (2003). The norm of this part over all rows must be at least 0.1: then 2 % of noise in the seconds
//   cause 20 % of error in the constant. It must also be at least a tenth of the norm of the whole sensitivity: a
//   collinearity index of at most 10 (Brun et al., "Practical identifiability analysis of large environmental
//   simulation models", Water Resources Research 37, 2001, where limits of 5 to 20 are used).
// - At most as many constants are fitted as there are rows, less one (with a single row: one constant).
// - The result is the fit with the fewest constants whose error on left-out rows (below) is at most a tenth above the
//   least. So constants that only follow noise are not fitted. A row that alone determines a constant (leverage above
//   0.95) does not count in this error, because no fit without it can predict it.
//
// Left-out rows: each row is left out once, and a fit to the other rows predicts it. That fit is linearised at the fit
// to all rows; a constant that the other rows do not determine keeps its first value. The prediction uses the cost
// model itself, not the linear form.
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
  /// Standard error of the constant's logarithm, from the scatter of the rows: 0.05 is 5 %. nullopt if there are no
  /// more rows than fitted constants, or if the constant ended at a bound.
  std::optional<double> error;
  bool is_at_bound = false;
  std::vector<double> weights;  ///< by row: d log(constant) / d log(measured seconds of the row)
};

enum class LeftOut {
  no_effect,      ///< no row depends on it
  little_effect,  ///< rows depend on it too little
  alike,          ///< rows cannot distinguish it from fitted constants
  too_few_rows,   ///< rows determine the fitted constants, but no further one
  no_better,      ///< with it, left-out rows are not predicted better
};

/// A constant that keeps its value.
struct LeftConstant {
  size_t constant = 0;
  LeftOut reason = LeftOut::no_effect;
  double sensitivity = 0;      ///< greatest of all rows, at the fitted values
  std::vector<size_t> others;  ///< alike: the fitted constants that imitate it
};

struct CalibrationFit {
  std::vector<double> values;         ///< of all constants
  std::vector<double> before, after;  ///< predicted seconds by row
  std::vector<double> left_out;  ///< predicted seconds of each row by a fit without this row; empty below three rows
  std::vector<FittedConstant> fitted;  ///< in the order in which they were chosen
  std::vector<LeftConstant> left;      ///< in the order of the constants
};

struct CalibrationRules {
  /// True: fits every constant that the rows determine, up to one per row. For constants that the user has chosen.
  bool all = false;
};

/// `measured`: seconds of the rows, at least one.
CalibrationFit calibrate(const std::vector<FreeConstant>& constants, const std::vector<double>& measured,
                         const RowSeconds& seconds, const CalibrationRules& rules = {});

}  // namespace trireme
