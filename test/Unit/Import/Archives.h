//===- Archives.h - Archives for tests --------------------------*- C++ -*-===//

#ifndef PLUMB_TEST_UNIT_IMPORT_ARCHIVES_H
#define PLUMB_TEST_UNIT_IMPORT_ARCHIVES_H

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <zip.h>

namespace plumb::test {

inline std::string fixture(const std::string &name) { return std::string(PLUMB_FIXTURES) + "/" + name; }

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The entries of an archive, to be changed and written again.
struct Archive {
  std::vector<std::pair<std::string, std::string>> entries;

  static Archive read(const std::string &path) {
    Archive result;
    int code = 0;
    zip_t *zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
    for (zip_int64_t i = 0; zip && i < zip_get_num_entries(zip, 0); ++i) {
      zip_stat_t stat;
      zip_stat_index(zip, i, 0, &stat);
      std::string content(stat.size, '\0');
      zip_file_t *file = zip_fopen_index(zip, i, 0);
      zip_fread(file, content.data(), content.size());
      zip_fclose(file);
      result.entries.emplace_back(stat.name, std::move(content));
    }
    if (zip)
      zip_discard(zip);
    return result;
  }

  /// The entry whose name ends so; it must exist.
  std::string &operator[](const std::string &suffix) {
    for (auto &[name, content] : entries)
      if (name.size() >= suffix.size() &&
          name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
        return content;
    throw std::out_of_range(suffix);
  }

  void erase(const std::string &suffix) {
    std::erase_if(entries, [&](const auto &entry) {
      return entry.first.size() >= suffix.size() &&
             entry.first.compare(entry.first.size() - suffix.size(), suffix.size(), suffix) == 0;
    });
  }

  std::string bytes(bool compress = false) const {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *target = zip_source_buffer_create(nullptr, 0, 0, &error);
    zip_source_keep(target);
    zip_t *zip = zip_open_from_source(target, ZIP_TRUNCATE, &error);
    for (const auto &[name, content] : entries) {
      zip_int64_t index = zip_file_add(
          zip, name.c_str(), zip_source_buffer(zip, content.data(), content.size(), 0), ZIP_FL_ENC_UTF_8);
      zip_set_file_compression(zip, index, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    zip_close(zip);
    zip_stat_t stat;
    zip_source_stat(target, &stat);
    std::string result(stat.size, '\0');
    zip_source_open(target);
    zip_source_read(target, result.data(), result.size());
    zip_source_close(target);
    zip_source_free(target);
    return result;
  }
};

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_IMPORT_ARCHIVES_H
