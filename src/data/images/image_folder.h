// One folder of JPEG and PNG files per class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/images/image_dataset.h"

namespace trireme {

/// The files of one split, by class.
struct ImageFolder {
  struct File {
    std::string path;  ///< relative to `folder`
    int32_t label = 0;
  };

  std::filesystem::path folder;
  std::vector<std::string> classes;  ///< names; a label is an index into them
  std::vector<File> files;           ///< class by class, sorted within a class
  /// Images that are left out because of their names' endings, by ending: {".gif", 3}.
  std::map<std::string, int64_t> left_out = {};

  /// Words for TaskData::source; "" if no image is left out.
  std::string left_out_in_words() const;
  int64_t count() const { return static_cast<int64_t>(files.size()); }
  std::filesystem::path file(int64_t index) const { return folder / files[static_cast<size_t>(index)].path; }
  /// Reduces the files to n (0: all), with equal numbers per class as far as possible, the first files of each class.
  void keep_evenly(int64_t n);
};

/// Lists folder/<class>/**/*.{jpg,jpeg,png}, classes and files in the byte order of their names: torchvision's
/// ImageFolder gives the same labels in the same order. If the folder has val_annotations.txt (tiny-imagenet-200's
/// validation split: a line per file of images/ with its class), that is read instead. Other files are ignored; images
/// among them are counted.
/// `classes`: those of the training split; empty: the folders' names. User errors: no such folder; no folders in it; a
/// class without images; a class that `classes` lacks.
ImageFolder list_image_folder(const std::filesystem::path& folder, const std::vector<std::string>& classes = {});

/// Images that are decoded when requested. Grey images become RGB if the form has 3 channels.
class FolderDataset final : public LabelledImages {
 public:
  FolderDataset(ImageFolder folder, SampleForm form);

  int64_t size() const override { return folder_.count(); }
  bool decodes() const override { return true; }
  const ImageFolder& folder() const { return folder_; }

 private:
  int64_t label(int64_t index) const override { return folder_.files[static_cast<size_t>(index)].label; }
  ViewedImage read(int64_t index, const ViewOf& view_of, Image& buffer) const override;

  ImageFolder folder_;
  int64_t channels_;
};

}  // namespace trireme
