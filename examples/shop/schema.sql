-- A small shop. `sitemapd run` makes these tables in an empty file (the setting `setup`); a real shop's
-- application would have made them.

CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    category TEXT NOT NULL,
    slug TEXT,
    name TEXT NOT NULL,
    published INTEGER NOT NULL DEFAULT 0,
    updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE UNIQUE INDEX products_slug ON products (slug);

INSERT INTO products (category, slug, name, published, updated_at) VALUES
    ('tea', 'assam', 'Assam, second flush', 1, '2026-10-02 08:15:00'),
    ('tea', 'sencha', 'Sencha', 1, '2026-11-12 10:00:00'),
    ('tea', 'winter-blend', 'Winter blend', 0, '2026-11-28 17:30:00'),
    ('pots', 'cast-iron-0.8-l', 'Cast iron pot, 0.8 l', 1, '2026-09-17 12:00:00'),
    ('pots', 'kyusu', 'Kyusu', 1, '2026-09-17 12:00:00'),
    ('cups', 'schälchen', 'Schälchen, set of five', 1, '2026-11-03 09:45:00');
