// Parts of which HTML pages are made. Pure functions, thread-safe.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/columns.h"

namespace trireme {

/// Escapes `text` for HTML text and attribute values.
std::string html_escaped(std::string_view text);

/// A page with charts.
struct HtmlPage {
  std::string title;        ///< escaped
  std::string first;        ///< id of the section to which a reader may skip
  std::string first_words;  ///< "verdict"
  std::string body;
  nlohmann::json data;  ///< what the scripts draw
  /// They follow charts.js and palette.js; later ones use what earlier ones define.
  std::vector<std::string_view> scripts;
};

/// Returns the whole document, which loads nothing.
std::string html_page(const HtmlPage& page);

/// Escapes code for a <script> element, whose text may contain anything but its own end tag. In JavaScript strings
/// "<\/" means "</".
std::string script_text(std::string_view code);

/// Escapes JSON for a <script> element. In JSON '<' occurs only inside strings, where \u003c means the same.
std::string embedded_json(const nlohmann::json& json);

/// One <p> per text.
std::string paragraphs(const std::vector<std::string>& texts);

/// `first_row`: if not negative, line k of the table is row first_row + k of the page's data, and gets its number.
std::string html_table(const std::vector<Column>& columns, const std::string& caption, int first_row = -1);

/// Replaces each {{name}} of a template by part(name). Inserted text is not searched for names.
std::string filled_template(std::string_view text, const std::function<std::string(std::string_view name)>& part);

}  // namespace trireme
