//===- Archive.cpp - The tensors of a torch.export archive --------------------===//

#include "plumb/Runtime/Archive.h"

#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/JsonReader.h"
#include "plumb/Runtime/ZipDirectory.h"

#include <set>
#include <utility>

namespace plumb {
namespace {

constexpr const char *kExportAgain =
    "; export the model again with torch.export.save of PyTorch 2.9 or newer";
constexpr const char *kFormat = "archive_format";

constexpr std::int64_t kStrided = 7; ///< In torch.export's schema.

/// An entry of a config.
struct Record {
  std::string file;
  std::int64_t dtype = 0, layout = kStrided, offset = 0;
  std::vector<std::int64_t> shape, strides;
  bool isPickled = false, isTensor = false, isStatic = true;
};

class ArchiveReader {
public:
  explicit ArchiveReader(std::span<const std::byte> image) : zip(image) {}

  ArchiveTensors read() {
    findRoot();
    require("archive_version", "0");
    require("byteorder", "little");
    // The published description of the format and its writer disagree on the names.
    readConfig("data/weights/", {"_weights_config.json", "_model_param_config.json"});
    readConfig("data/constants/", {"_constants_config.json", "_model_constants_config.json"});
    return std::move(result);
  }

private:
  /// All entries lie in one folder, which is named after the file when it was saved.
  void findRoot() {
    for (const auto &[name, entry] : zip.entries())
      if (name == kFormat || name.ends_with(std::string("/") + kFormat)) {
        root = name.substr(0, name.size() - std::string_view(kFormat).size());
        return require(kFormat, "pt2");
      }
    throw Failure(std::string("this ZIP archive is no .pt2 of torch.export.save: it has no entry '") +
                  kFormat + "'; weights of torch.save are to be saved as safetensors");
  }

  static std::string_view textOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }

  /// An entry of one line, if it is there, must say this.
  void require(const char *name, std::string_view wanted) const {
    auto content = zip.content(root + name);
    std::string_view text = content ? textOf(*content) : wanted;
    text = text.substr(0, text.find_last_not_of(" \r\n\t") + 1);
    if (text != wanted)
      throw Failure(std::string("'") + name + "' of this archive is '" + std::string(text) + "', but only '" +
                    std::string(wanted) + "' can be read");
  }

  /// The config of the program "model", or of the only one.
  std::string findConfig(const std::string &folder, const std::vector<std::string> &endings) const {
    std::set<std::string> found;
    for (const std::string &ending : endings) {
      if (zip.entries().contains(folder + "model" + ending))
        return folder + "model" + ending;
      for (const auto &[name, entry] : zip.entries())
        if (name.starts_with(folder) && name.ends_with(ending))
          found.insert(name);
    }
    if (found.empty())
      throw Failure("this archive has no entry '" + folder + "model" + endings.front() +
                    "', which says where its tensors are" + kExportAgain);
    if (found.size() > 1)
      throw Failure("this archive has several programs, none of them called 'model': '" + *found.begin() +
                    "' and '" + *found.rbegin() + "'");
    return *found.begin();
  }

  void readConfig(const char *relative, const std::vector<std::string> &endings) {
    std::string folder = root + relative, config = findConfig(folder, endings);
    JsonReader reader(config, textOf(*zip.content(config)));
    bool hasTensors = false;
    reader.object([&](const std::string &key) {
      if (key != "config")
        return reader.skip();
      hasTensors = true;
      reader.object([&](const std::string &name) { add(folder, name, readRecord(reader)); });
    });
    reader.end();
    if (!hasTensors)
      throw Failure(config + " lacks 'config'");
  }

  static Record readRecord(JsonReader &reader) {
    Record record;
    reader.object([&](const std::string &key) {
      if (key == "path_name")
        record.file = reader.string();
      else if (key == "use_pickle")
        record.isPickled = reader.boolean();
      else if (key == "tensor_meta" && !reader.null())
        readMeta(reader, record, /*mayBeWrapped=*/true);
      else if (key != "tensor_meta")
        reader.skip();
    });
    return record;
  }

  static void readMeta(JsonReader &reader, Record &record, bool mayBeWrapped) {
    record.isTensor = true;
    auto number = [&] {
      std::int64_t value = 0;
      if (!reader.isObject()) // The older spelling of an offset.
        return reader.integer();
      reader.object([&](const std::string &key) {
        if (key == "as_int")
          return static_cast<void>(value = reader.integer());
        record.isStatic = false;
        reader.skip();
      });
      return value;
    };
    reader.object([&](const std::string &key) {
      if (key == "dtype")
        record.dtype = reader.integer();
      else if (key == "layout")
        record.layout = reader.integer();
      else if (key == "storage_offset")
        record.offset = number();
      else if (key == "sizes")
        reader.array([&] { record.shape.push_back(number()); });
      else if (key == "strides")
        reader.array([&] { record.strides.push_back(number()); });
      else if (key == "meta" && mayBeWrapped) // The older spelling.
        readMeta(reader, record, /*mayBeWrapped=*/false);
      else
        reader.skip();
    });
  }

  /// Whether a tensor can be read matters only where a program needs it.
  void add(const std::string &folder, const std::string &name, const Record &record) {
    const char *dtype = nameOfScalarType(record.dtype);
    auto refuse = [&](const std::string &why) { result.unreadable.emplace(name, why); };
    if (!record.isTensor)
      return;
    if (record.isPickled)
      return refuse(std::string(" is stored as a Python pickle, which cannot be read") + kExportAgain);
    if (record.layout != kStrided || !record.isStatic)
      return refuse(" is stored sparse, in a special layout, or with symbolic sizes, which cannot be read");
    if (!dtype)
      return refuse(" has the element type " + std::to_string(record.dtype) +
                    " of torch.export's schema, which no program uses");
    auto bytes = zip.content(folder + record.file);
    if (!bytes)
      throw Failure("the archive has no entry '" + folder + record.file + "', which is to hold '" + name +
                    "'");
    if (bytes->empty() && byteCount(dtype, record.shape) != 0)
      return refuse(" has a shape but no values: the model was exported with fake or meta weights");
    auto view = viewWithin(*bytes, dtype, record.shape, record.strides, record.offset);
    if (!view)
      throw Failure("'" + name + "' leaves the entry '" + folder + record.file + "', which has " +
                    std::to_string(bytes->size()) + " bytes");
    result.views.emplace(name, std::move(*view));
  }

  ZipDirectory zip;
  std::string root;
  ArchiveTensors result;
};

} // namespace

ArchiveTensors parseArchive(std::span<const std::byte> image) { return ArchiveReader(image).read(); }

} // namespace plumb
