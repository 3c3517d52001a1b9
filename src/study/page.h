// The report of a study: one HTML file that opens offline, and the same numbers as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "study/study.h"
#include "study/tables.h"

namespace trireme {

/// A study with what is known of its runs.
struct StudyResult {
  const Study* study = nullptr;
  StudySize size = StudySize::usual;
  std::vector<StudyRunResult> runs;  ///< one for each run of the study, in its order
};

/// Returns the whole document. Runs without rows are listed with the reason.
std::string study_page(const StudyResult& result);

/// Returns the tables, charts and sentences of the page as JSON (docs/studies.md).
nlohmann::json study_json(const StudyResult& result);

/// Returns the lines for a terminal: of each part with advice the sentences, and of each run without rows the reason.
std::vector<std::string> study_answer(const StudyResult& result);

}  // namespace trireme
