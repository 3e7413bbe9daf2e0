#include "ZipFile.h"

#include <algorithm>

#include <zip.h>

namespace plumb::pt2 {

/// Entries are read in pieces, so that a directory that lies about a size cannot make us allocate it.
static constexpr size_t kPiece = size_t(1) << 20;

ZipFile::~ZipFile() {
  if (archive_)
    zip_discard(archive_);
}

/// Reports why libzip could not open an archive and releases its error.
static void reportUnreadable(const std::string &name, zip_error_t &error, Diagnostics &diagnostics) {
  int code = zip_error_code_zip(&error);
  std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (code == ZIP_ER_OPEN || code == ZIP_ER_NOENT)
    diagnostics.error({name}, "cannot open this file: " + why);
  else
    diagnostics.error({name},
                      "this is not a complete ZIP archive, as every .pt2 is: it is truncated, damaged, or "
                      "something else (" +
                          why + ")");
}

std::unique_ptr<ZipFile> ZipFile::open(const std::string &path, Diagnostics &diagnostics) {
  std::unique_ptr<ZipFile> file(new ZipFile(path));
  int code = 0;
  file->archive_ = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (!file->archive_) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    reportUnreadable(path, error, diagnostics);
    return nullptr;
  }
  file->readDirectory();
  return file;
}

std::unique_ptr<ZipFile> ZipFile::read(const std::string &name, std::string bytes, Diagnostics &diagnostics) {
  std::unique_ptr<ZipFile> file(new ZipFile(name));
  file->memory_ = std::move(bytes);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source = zip_source_buffer_create(file->memory_.data(), file->memory_.size(), 0, &error);
  file->archive_ = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr;
  if (!file->archive_) {
    if (source)
      zip_source_free(source);
    reportUnreadable(name, error, diagnostics);
    return nullptr;
  }
  zip_error_fini(&error);
  file->readDirectory();
  return file;
}

void ZipFile::readDirectory() {
  zip_int64_t count = zip_get_num_entries(archive_, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    // Names are compared as bytes; without the flag libzip converts what it takes for another encoding.
    if (zip_stat_index(archive_, i, ZIP_FL_ENC_RAW, &stat) != 0 || !(stat.valid & ZIP_STAT_NAME))
      continue;
    index_.emplace(stat.name, entries_.size());
    entries_.push_back({stat.name, stat.valid & ZIP_STAT_SIZE ? stat.size : 0, static_cast<size_t>(i)});
  }
}

const ZipFile::Entry *ZipFile::find(const std::string &name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::optional<std::string> ZipFile::content(const Entry &entry, Diagnostics &diagnostics) const {
  auto fail = [&](const std::string &why) {
    diagnostics.error({name_}, "cannot read the entry \"" + entry.name + "\": " + why);
    return std::nullopt;
  };
  zip_file_t *file = zip_fopen_index(archive_, entry.index, 0);
  if (!file)
    return fail(zip_strerror(archive_));
  std::string content;
  zip_int64_t got = 1;
  while (got > 0 && content.size() <= entry.size) {
    size_t have = content.size();
    content.resize(have + std::min<uint64_t>(kPiece, entry.size - have + 1));
    got = zip_fread(file, content.data() + have, content.size() - have);
    content.resize(have + std::max<zip_int64_t>(got, 0));
  }
  std::string why = got < 0 ? zip_file_strerror(file) : "";
  zip_fclose(file);
  if (got < 0)
    return fail(why);
  if (content.size() != entry.size)
    return fail("it should have " + std::to_string(entry.size) + " bytes, but " +
                (content.size() < entry.size ? "ends after " + std::to_string(content.size()) : "has more"));
  return content;
}

} // namespace plumb::pt2
