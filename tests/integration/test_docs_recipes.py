"""The recipes of docs/push.md run in what they are for, against a real server.

Each app does the same: it keeps an article, renames one, unpublishes one, does both in one save, deletes one,
rolls a change back, and keeps a draft. Then the state lists what is published, and no older URL.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rq
from rq.serializers import JSONSerializer

from sitemap_store.model.wire import QUEUE
from tests import markdown, needs
from tests.client.processes import run
from tests.integration.http_world import SECRET, HttpWorld, token
from tests.world import BASE
from worker.jobs import ALLOWED

PAGE = markdown.doc("push.md")
LISTED = {"kept", "new"}

DJANGO = """
import sys
import django
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["__main__"],
    USE_TZ=True,
)
import __main__
__main__.__path__ = []
__main__.__file__ = "/app.py"
django.setup()
from django.db import connection, models
from sitemapd_client import Publisher
recipe, address, token, base = sys.argv[1:]
sitemap = Publisher(address, token, "shop", source="articles")
class Article(models.Model):
    slug = models.TextField()
    published = models.BooleanField(default=True)
    updated_at = models.DateTimeField(auto_now=True)
    class Meta:
        app_label = "__main__"
    def get_full_url(self):
        return base + self.slug
exec(open(recipe).read())
with connection.schema_editor() as editor:
    editor.create_model(Article)
def make(slug, published=True):
    return Article.objects.create(slug=slug, published=published)
def change(article, **fields):
    article = Article.objects.get(pk=article.pk)
    for name, value in fields.items():
        setattr(article, name, value)
    article.save()
make("kept"), make("draft", published=False)
change(make("old"), slug="new")
change(make("withdrawn"), published=False)
change(make("both"), slug="both-2", published=False)
make("deleted").delete()
from django.db import transaction
try:
    with transaction.atomic():
        make("rolled-back")
        raise KeyError
except KeyError:
    pass
sitemap.close(20)
"""
SQLALCHEMY = """
import sys
from datetime import date
from types import SimpleNamespace
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker
from sitemapd_client import Publisher
recipe, address, token, base = sys.argv[1:]
sitemap = Publisher(address, token, "shop", source="articles")
class Base(DeclarativeBase):
    pass
class Article(Base):
    __tablename__ = "article"
    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str]
    published: Mapped[bool] = mapped_column(default=True)
    updated_at: Mapped[date] = mapped_column(default=date.today)
    @property
    def url(self):
        return base + self.slug
engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
db = SimpleNamespace(session=scoped_session(sessionmaker(engine)))
exec(open(recipe).read())
def make(slug, published=True):
    article = Article(slug=slug, published=published)
    db.session.add(article)
    db.session.commit()
    number = article.id
    db.session.remove()  # as at the end of a request
    return db.session.get(Article, number)
def change(article, **fields):
    for name, value in fields.items():
        setattr(article, name, value)
    db.session.commit()
kept = make("kept")
make("draft", published=False)
change(make("old"), slug="new")
change(make("withdrawn"), published=False)
change(make("both"), slug="both-2", published=False)
db.session.delete(make("deleted"))
db.session.commit()
twice = make("one")
twice.slug = "two"
db.session.flush()
change(twice, slug="three")
change(twice, published=False)
kept = db.session.get(Article, 1)
kept.slug = "rolled-back"
db.session.flush()
db.session.rollback()
change(kept, published=True)
sitemap.close(20)
engine.dispose()
"""
RAILS = """
require "json"
require "net/http"
require "active_record"
require "active_job"
recipe, $base = ARGV
ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:articles) { |t| t.string :slug; t.boolean :published, default: true; t.timestamps }
end
ActiveJob::Base.logger = Logger.new(nil)
ActiveJob::Base.queue_adapter = :inline
class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end
class ApplicationJob < ActiveJob::Base
end
load recipe
class Article
  def url
    $base + slug
  end
end
def make(slug, published = true)
  Article.find(Article.create!(slug: slug, published: published).id)
end
make("kept")
make("draft", false)
make("old").update!(slug: "new")
make("withdrawn").update!(published: false)
make("both").update!(slug: "both-2", published: false)
make("deleted").destroy!
Article.transaction do
  Article.create!(slug: "rolled-back")
  raise ActiveRecord::Rollback
end
"""
WORDPRESS = """<?php
[, $recipe, $base, $token] = $argv;
define('SITEMAP_TOKEN', $token);
$hooks = $meta = [];
function add_action($name, $work, $priority, $arguments) { global $hooks; $hooks[$name] = $work; }
function get_post_meta($id, $key, $single) { global $meta; return $meta[$id][$key] ?? ''; }
function update_post_meta($id, $key, $value) { global $meta; $meta[$id][$key] = $value; }
function delete_post_meta($id, $key) { global $meta; unset($meta[$id][$key]); }
function get_post_modified_time($format, $gmt, $post) { return gmdate($format); }
function get_permalink($post) { global $base; return $base . $post->post_name; }
function is_post_type_viewable($type) { return $type === 'post'; }
function wp_is_post_revision($id) { return false; }
function wp_json_encode($value) { return json_encode($value); }
function wp_remote_retrieve_response_code($answer) { return $answer; }
function wp_remote_post($url, $options) {
    $headers = [];
    foreach ($options['headers'] as $name => $value) { $headers[] = "$name: $value"; }
    $http = ['method' => 'POST', 'header' => $headers, 'content' => $options['body']];
    file_get_contents($url, false, stream_context_create(['http' => $http]));
    return (int) explode(' ', $http_response_header[0])[1];
}
function save($post, $fields = []) {
    global $hooks;
    foreach ($fields as $name => $value) { $post->$name = $value; }
    $hooks['wp_after_insert_post']($post->ID, $post);
    return $post;
}
function make($slug, $status = 'publish', $type = 'post') {
    static $id = 0;
    $post = ['ID' => ++$id, 'post_name' => $slug, 'post_status' => $status, 'post_type' => $type];
    return save((object) $post);
}
require $recipe;
make('kept');
make('draft', 'draft');
make('menu', 'publish', 'nav_menu_item');
save(make('old'), ['post_name' => 'new']);
save(make('withdrawn'), ['post_status' => 'draft']);
save(make('both'), ['post_name' => 'both-2', 'post_status' => 'private']);
save(make('trashed'), ['post_name' => 'trashed__trashed', 'post_status' => 'trash']);
$deleted = make('deleted');
$hooks['before_delete_post']($deleted->ID, $deleted);
"""


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server that wants a token."""
    world = HttpWorld(redis_url, tokens=(token(),))
    yield world
    world.close()


@pytest.fixture
def recipe(request: pytest.FixtureRequest, world: HttpWorld, tmp_path: Path) -> Path:
    """Give the code below a heading of the page as a file, with the world's address."""
    heading, language = request.param
    (code,) = markdown.blocks(markdown.under(PAGE, heading), language)
    code = code.replace("https://sitemaps.example.com/", world.server.address)
    code = code.replace("/sites/blog/", "/sites/shop/")
    file = tmp_path / "recipe"
    file.write_text(("<?php\n" if language == "php" else "") + code, "utf-8")
    return file


@pytest.mark.parametrize(
    ("recipe", "app"),
    [(("Django", "python"), DJANGO), (("Flask and SQLAlchemy", "python"), SQLALCHEMY)],
    indirect=["recipe"],
    ids=["Django", "SQLAlchemy"],
)
def test_python_recipes(world: HttpWorld, recipe: Path, app: str) -> None:
    """The older URL goes with a new slug, with unpublishing, with both, and with a delete."""
    run(app, str(recipe), world.server.address, SECRET, BASE)
    assert world.locs() == LISTED


@pytest.mark.parametrize("recipe", [("Ruby on Rails", "ruby")], indirect=True, ids=["Rails"])
def test_rails_recipe(world: HttpWorld, recipe: Path) -> None:
    """The same with Active Record and Active Job of Rails."""
    ruby = needs.program("ruby", package="ruby")
    gems = subprocess.run([ruby, "-e", 'require "active_record"; require "active_job"; require "sqlite3"'])
    needs.require(gems.returncode == 0, "install ruby-activerecord, ruby-activejob and ruby-sqlite3")
    environment = {**os.environ, "SITEMAP_TOKEN": SECRET}
    subprocess.run([ruby, "-e", RAILS, recipe, BASE], env=environment, check=True, timeout=60)
    assert world.locs() == LISTED


@pytest.mark.parametrize("recipe", [("WordPress", "php")], indirect=True, ids=["WordPress"])
def test_wordpress_recipe(world: HttpWorld, recipe: Path, tmp_path: Path) -> None:
    """The same with PHP and stand-ins for WordPress' functions; trash changes the slug first."""
    php = needs.program("php", package="php-cli")
    app = tmp_path / "app.php"
    app.write_text(WORDPRESS, "utf-8")
    done = subprocess.run([php, app, recipe, BASE, SECRET], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert world.locs() == LISTED


def test_push_from_python(world: HttpWorld) -> None:
    """The first snippet for Python adds, updates and deletes."""
    code, _ = markdown.blocks(markdown.under(PAGE, "From Python").partition("### ")[0], "python")
    code = code.replace("https://sitemaps.example.com/", world.server.address)
    names: dict[str, Any] = {"TOKEN": SECRET}
    exec(code.replace("https://shop.example.com/", BASE), names)
    names["sitemap"].close(20)
    assert world.locs("shop") == {"tea"}


def test_rq_recipe(world: HttpWorld) -> None:
    """The job that the snippet enqueues is one that a worker runs."""
    (code,) = markdown.blocks(markdown.under(PAGE, "As an RQ job"), "python")
    exec(code, {"redis": world.queue})
    queue = rq.Queue(QUEUE, connection=world.queue, serializer=JSONSerializer)
    (job,) = queue.jobs
    assert job.func_name in ALLOWED
    assert job.args[0] == "shop"
    assert [event["op"] for event in job.args[1]] == ["add"]
