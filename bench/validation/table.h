// Rows of published and simulated numbers, and the page with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::validation {

struct Row {
  std::string what;
  double published = 0;
  std::optional<double> predicted;  ///< if none, `note` gives the reason
  std::optional<double> limit;      ///< greatest relative error; none: the row is shown only
  bool is_share = false;            ///< published is a share of time: errors and limits are differences
  bool is_calibrated = false;       ///< the number of this row was given to the simulator
  std::string note;

  double error() const { return is_share ? *predicted - published : *predicted / published - 1; }
  bool holds() const { return !limit || (predicted && error() <= *limit && error() >= -*limit); }
};

/// A statement about several rows together: a sign, an order.
struct Claim {
  std::string what;
  bool holds = true;
};

struct Table {
  std::string title;
  std::string source;      ///< the publication
  std::string quantity;    ///< what the numbers measure
  std::string setup;       ///< how it was simulated: model, plan, machine, assumptions
  std::string calibrated;  ///< the calibrated number and its row, or that there is none
  int decimals = 2;
  std::vector<Row> rows;
  std::vector<Claim> claims;
  std::string remarks;  ///< why some rows differ

  bool holds() const;
  void claim(std::string what, bool holds);
};

/// The whole page in Markdown.
std::string page(const std::vector<Table>& tables);

/// One line for each row that exceeds its limit and each claim that does not hold.
std::vector<std::string> broken(const std::vector<Table>& tables);

}  // namespace trireme::validation
