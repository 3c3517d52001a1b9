// Reads one annotation of a COCO file. Used by coco.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

#include "data/images/coco/coco_instances.h"

namespace trireme {

inline constexpr int64_t kMostCocoPixels = int64_t{1} << 28;  ///< pixels of an image
inline constexpr const char* kRepairFile = "repair the file or get it again";
inline constexpr const char* kRepairAnnotation =
    "repair the annotation, or leave its image out with data.on_error = \"skip\"";

/// One object of a list, with its place for messages: "FILE: annotations[7] (id 1768)". Refers to file and value, which
/// must outlive it.
class CocoEntry {
 public:
  CocoEntry(const std::filesystem::path& file, const char* list, int64_t position, const nlohmann::json& value);

  const std::string& name() const { return name_; }
  std::string where() const;
  [[noreturn]] void fail(std::string what, std::string why, const char* next = kRepairFile) const;

  const nlohmann::json* find(const char* key) const;  ///< null if absent
  /// User errors: the key is absent, or of another kind.
  const nlohmann::json& at(const char* key) const;
  int64_t whole(const char* key) const;
  std::string text(const char* key) const;

  /// Returns a value in a few characters.
  static std::string shown(const nlohmann::json& value);

 private:
  const std::filesystem::path& file_;
  std::string name_;
  const nlohmann::json& value_;
};

/// An annotation whose image and category are not looked up yet, because the lists may come in any order.
struct CocoAnnotation {
  int64_t image = 0;
  int64_t category = 0;
  CocoObject object;
  std::string problem;
};

/// User errors: those of parse_coco. With `skip_broken` they are stored in `problem`, except for an annotation that
/// names no image.
CocoAnnotation read_coco_annotation(const std::filesystem::path& file, int64_t position, const nlohmann::json& value,
                                    bool skip_broken);

}  // namespace trireme
