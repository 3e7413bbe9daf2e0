// The translation unit that owns the precompiled header; other targets reuse it.
