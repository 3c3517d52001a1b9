// Reads COCO's instances files (coco_instances.h).
#pragma once

#include <filesystem>
#include <string_view>

#include "data/images/coco/coco_instances.h"

namespace trireme {

/// Reads the text of an instances file. `file`: its name in messages. The text is read once, front to back, and only
/// the contents of CocoInstances are stored. User errors: text that is not JSON (with the byte); a key that is missing
/// or of the wrong kind; an id that occurs twice or not at all; invalid run lengths or polygons (each with the place,
/// as "annotations[7] (id 1768)"). `skip_broken`: errors of an annotation are stored in its image's `problem` instead.
CocoInstances parse_coco(std::string_view text, const std::filesystem::path& file, bool skip_broken = false);

}  // namespace trireme
